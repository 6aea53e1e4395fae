const options = { actions: false, renderer: "svg", ast: true, mode: "vega-lite", defaultStyle: false };

for (const figure of document.querySelectorAll("[data-chart]")) {
  const specification = JSON.parse(document.getElementById(`chart-${figure.dataset.chart}`).textContent);
  vegaEmbed(figure, specification, options).then(
    () => figure.setAttribute("data-drawn", ""),
    (error) => { figure.textContent = `This chart could not be drawn: ${error.message}`; },
  );
}

const slider = document.getElementById("tradeoff");
if (slider) {
  const places = JSON.parse(slider.dataset.places);
  const say = () => {
    const text = `λ = ${places[slider.value]}`;
    slider.setAttribute("aria-valuetext", text);
    document.getElementById("tradeoff-now").textContent = text;
  };
  slider.addEventListener("input", say);
  say();
}
