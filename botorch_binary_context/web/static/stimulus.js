// What one side of a trial looks or sounds like.
//
// A value that names a file of the server's folder is shown: an image, a sound, a text.
// A module `stimulus.js` in that folder draws anything else. Its default export is
// called with an element, the parameters of the side and the context.

import { element, formatNumber } from "./dom.js";
import { text } from "./strings.js";

const FILES = new URL("../files/", import.meta.url);
const KINDS = {
  image: /\.(png|jpe?g|gif|svg|webp|avif)$/i,
  sound: /\.(wav|mp3|ogg|oga|opus|flac|m4a)$/i,
  text: /\.(txt|md)$/i,
};

export async function loadStimulus(description) {
  if (!description.page.stimulus) {
    return null;
  }
  const module = await import(new URL("stimulus.js", FILES));
  return module.default;
}

export function drawStimulus(stage, side, context, custom) {
  if (custom) {
    return custom(stage, side, context) ?? null;
  }
  const players = Object.entries(side).map(([name, value]) => {
    const kind = Object.keys(KINDS).find((known) => KINDS[known].test(String(value)));
    return kind ? DRAW[kind](stage, String(value)) : drawValue(stage, name, value);
  });
  return players.find((player) => player) ?? null;
}

const DRAW = {
  image(stage, name) {
    const image = element("img", { src: fileOf(name), alt: "", draggable: "false" });
    image.addEventListener("error", () => complain(stage, name));
    stage.append(image);
    return null;
  },
  sound(stage, name) {
    const sound = element("audio", { src: fileOf(name), preload: "auto" });
    sound.addEventListener("error", () => complain(stage, name));
    stage.append(sound);
    return sound;
  },
  text(stage, name) {
    const paragraph = element("p", { class: "text" });
    stage.append(paragraph);
    fetch(fileOf(name))
      .then((response) => (response.ok ? response.text() : Promise.reject(response)))
      .then((content) => (paragraph.textContent = content))
      .catch(() => complain(stage, name));
    return null;
  },
};

function drawValue(stage, name, value) {
  stage.append(
    element(
      "p",
      { class: "value" },
      element("span", { class: "name" }, name),
      " ",
      element("strong", {}, formatNumber(value)),
    ),
  );
  return null;
}

function fileOf(name) {
  return new URL(name.split("/").map(encodeURIComponent).join("/"), FILES);
}

function complain(stage, name) {
  stage.append(element("p", { role: "alert" }, text("cannotLoad", { name })));
}
