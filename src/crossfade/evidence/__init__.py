"""What a comparison found, as records: made in `comparison`, shown in `report`."""
