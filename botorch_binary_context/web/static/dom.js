// Small helpers for what is on the page.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) {
      made.addEventListener(name.slice(2), value);
    } else if (value === true) {
      made.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      made.setAttribute(name, value);
    }
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function find(id) {
  return document.getElementById(id);
}

// Show one screen instead of another. The focus goes to its heading or, where there
// is none, to what has the attribute `data-focus`: that is what a screen reader says.
export function showScreen(...children) {
  const main = find("main");
  main.replaceChildren(...children.filter((child) => child !== null));
  const target = main.querySelector("h1, [data-focus]");
  if (target) {
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
  }
}

// A button for an answer. Screen readers say its name, and the key, if any, apart from it.
export function answerButton(attributes, label, key, sign = key?.toUpperCase()) {
  const shortcut = key?.length === 1 ? key.toUpperCase() : key;
  return element(
    "button",
    { class: "answer", "aria-label": label, "aria-keyshortcuts": shortcut, ...attributes },
    label,
    key === undefined ? null : element("kbd", { "aria-hidden": "true" }, sign),
  );
}

export function announce(message) {
  find("live").textContent = message;
}

export function showBanner(message) {
  const banner = find("banner");
  banner.textContent = message;
  banner.hidden = message === "";
}

export function formatNumber(value) {
  if (typeof value !== "number") {
    return String(value);
  }
  return String(Number(value.toPrecision(6))).replace("-", "\u2212");
}

export function formatValues(values) {
  return Object.entries(values)
    .map(([name, value]) => `${name} ${formatNumber(value)}`)
    .join(", ");
}

// When the browser has painted what is on the page now, with all images.
export async function painted() {
  const images = [...document.images];
  // One that cannot be loaded is not waited for.
  await Promise.all(images.map((image) => image.decode().catch(() => {})));
  await new Promise((resolve) => {
    requestAnimationFrame(() => requestAnimationFrame(resolve));
  });
}

export function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
