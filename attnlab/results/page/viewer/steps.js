// One of several maps at a time, as a slider says: of models, or of the checkpoints of a training.

/** Without JavaScript all of them stand below each other. */
export function sliderOfSteps() {
  const slider = document.getElementById("step");
  if (!(slider instanceof HTMLInputElement)) return;
  const steps = [...document.querySelectorAll(".step")];
  const show = () => {
    steps.forEach((step, index) => step.toggleAttribute("hidden", index !== slider.valueAsNumber));
    slider.setAttribute("aria-valuetext", steps[slider.valueAsNumber].querySelector("figcaption")?.textContent ?? "");
  };
  slider.addEventListener("input", show);
  show();
}
