// A click on a figure opens it at its full size.
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll("article img")) {
    if (image.closest("a")) continue;
    image.style.cursor = "zoom-in";
    image.addEventListener("click", () => window.open(image.src, "_blank", "noopener"));
  }
});
