// The page of the experimenter: how far each experiment is, live.

import { request, requestPatiently } from "./client.js";
import { announce, element, find, formatNumber, formatValues, sleep } from "./dom.js";
import { text } from "./strings.js";

const INTERVAL = 1000; // milliseconds
const SVG = "http://www.w3.org/2000/svg";
const ENDS = {
  answers: "limitAnswers",
  loss: "limitLoss",
  threshold_width: "limitThresholdWidth",
  value: "limitValue",
};

class Panel {
  constructor(name) {
    this.name = name;
    this.path = `experiments/${encodeURIComponent(name)}`;
    this.reported = null; // the revision of the last report
    this.values = []; // what it is worth to go on after so many answers, if known
    this.state = element("span", { class: "state" });
    this.counts = element("span", { class: "counts" });
    this.toggle = element("button", { onclick: () => this.stopOrResume() });
    this.report = element("div", { class: "report" });
    this.image = element("img", { alt: "", hidden: true });
    this.noPicture = element("p", {}, text("noPicture"));
    this.section = this.lay();
  }

  lay() {
    const table = new URL(`../api/${this.path}/export`, import.meta.url);
    return element(
      "section",
      { class: "panel", "aria-label": this.name },
      element(
        "header",
        {},
        element("h2", {}, this.name),
        this.state,
        this.counts,
        element(
          "div",
          { class: "buttons" },
          this.toggle,
          element("a", { href: table, download: `${this.name}.csv` }, text("export")),
        ),
      ),
      element("div", { class: "picture" }, this.noPicture, this.image),
      this.report,
    );
  }

  async stopOrResume() {
    const verb = this.status.finished === null ? "stop" : "resume";
    this.showStatus(await requestPatiently(`${this.path}/${verb}`, {}));
  }

  async watch() {
    for (;;) {
      this.showStatus(await requestPatiently(`${this.path}/status`));
      if (this.status.answered === 0) {
        this.report.replaceChildren(element("p", {}, text("noAnswers")));
      } else if (this.status.revision !== this.reported) {
        const { revision } = this.status;
        await this.update();
        this.reported = revision;
      }
      await sleep(INTERVAL);
    }
  }

  showStatus(status) {
    this.status = status;
    const { answered: number, limit: total, finished } = status;
    const state = finished === null ? "running" : finished in ENDS ? "ended" : "stopped";
    const reason = state === "ended" ? `: ${text(ENDS[finished])}` : "";
    this.state.textContent = text(state) + reason;
    this.state.dataset.state = state;
    const counts = [
      total === null ? `${number} ${text("answers")}` : text("answersOf", { number, total }),
      `${status.pending} ${text("pending")}`,
      `${status.withdrawn} ${text("withdrawn")}`,
    ];
    this.counts.textContent = counts.join(" · ");
    this.toggle.textContent = text(finished === null ? "stop" : "resume");
  }

  async update() {
    try {
      const found = await request(`${this.path}/recommend`);
      const { value } = goingOn(found);
      if (value !== null) {
        this.values.push([found.num_answers, value]);
      }
      this.report.replaceChildren(...this.describe(found));
      await this.draw(found.num_answers);
      announce(text("reportedAfter", { number: found.num_answers }));
    } catch (error) {
      this.report.replaceChildren(element("p", { class: "warning" }, error.message));
    }
  }

  async draw(number) {
    const address = new URL(`../api/${this.path}/plot`, import.meta.url);
    const response = await fetch(address, { cache: "no-store" });
    const former = this.image.src;
    this.noPicture.hidden = response.ok;
    this.image.hidden = !response.ok;
    if (response.ok) {
      this.image.src = URL.createObjectURL(await response.blob());
      this.image.alt = text("pictureAlt", { number });
    }
    if (former) {
      URL.revokeObjectURL(former);
    }
  }

  describe(found) {
    const parts = [
      ...found.warnings.map((warning) => element("p", { class: "warning" }, warning)),
      describeFound(found),
    ];
    if (found.map === null) {
      parts.push(element("div", {}, element("h3", {}, text("expected")), factTable(found)));
    }
    const { title, value, meaning } = goingOn(found);
    const amount = value === null ? text("notKnown") : formatShort(value);
    parts.push(
      element(
        "div",
        {},
        element("h3", {}, title),
        element("p", {}, element("strong", {}, amount), ` ${meaning}`),
        this.values.length > 1 ? drawTrend(this.values) : null,
        element("div", { class: "ends" }, ...found.progress.map(describeEnd)),
      ),
    );
    return parts;
  }
}

// What is recommended; where no parameters are the best, what is measured.
function describeFound(found) {
  const number = found.num_answers;
  const isMeasured = found.value_of_next_trial === null;
  const table = found.map === null ? parameterTable(found) : mapTable(found.map);
  return element(
    "div",
    {},
    element("h3", {}, text(isMeasured ? "measuredAfter" : "recommendedAfter", { number })),
    Object.keys(found.parameters).length || found.map ? table : null,
  );
}

// Whether it is worth going on: by how much the recommendation will improve, or how
// well the thresholds are known.
function goingOn(found) {
  if (found.value_of_next_trial !== null) {
    const value = found.value_of_next_trial;
    return { title: text("goingOn"), value, meaning: text("goingOnText") };
  }
  const places = found.map ?? [found];
  const thresholds = places.flatMap((place) => Object.values(place.thresholds));
  const isKnown = thresholds.every(({ low, high }) => low !== null && high !== null);
  const widths = thresholds.map(({ low, high }) => Math.abs(high - low));
  const value = isKnown && widths.length ? Math.max(...widths) : null;
  return { title: text("howSure"), value, meaning: text("howSureText") };
}

function parameterTable({ parameters, local_uncertainty: spreads }) {
  const rows = Object.entries(parameters).map(([name, value]) => [
    name,
    element("strong", {}, formatShort(value)),
    formatSpread(spreads[name]),
  ]);
  return makeTable(["parameter", "value", "interval"].map((key) => text(key)), rows);
}

function mapTable(places) {
  const names = Object.keys(places[0].thresholds);
  const rows = places.map(({ parameters, thresholds }) => [
    formatValues(parameters),
    ...names.map((name) => formatEstimate(thresholds[name].median, thresholds[name])),
  ]);
  const titles = names.map((name) => text("threshold", { name }));
  return makeTable([text("place"), ...titles], rows);
}

// The first entry of each row is its heading.
function makeTable(titles, rows) {
  const head = titles.map((title) => element("th", { scope: "col" }, title));
  const body = rows.map(([name, ...cells]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      ...cells.map((cell) => element("td", {}, cell)),
    ),
  );
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...body),
  );
}

function formatSpread(spread) {
  if (Array.isArray(spread)) {
    const [low, high] = spread.map(formatShort);
    return text("range", { low, high });
  }
  return Object.entries(spread ?? {})
    .map(([value, share]) => `${value} ${Math.round(100 * share)} %`)
    .join(", ");
}

function factTable(found) {
  const facts = [];
  const { success_probability: success, expected_loss: loss } = found;
  if (success) {
    const places = Object.entries(found.context).map(([name, v]) => `${name} ${formatShort(v)}`);
    const context = places.join(", ") || text("atReference");
    facts.push([text("success", { context }), formatEstimate(success.mean, success)]);
  }
  for (const [name, threshold] of Object.entries(found.thresholds)) {
    facts.push([text("threshold", { name }), formatEstimate(threshold.median, threshold)]);
  }
  if (loss) {
    const unit = loss.unit ?? text("latentUnits");
    facts.push([text("expectedLoss"), `${formatShort(loss.mean)} ${unit}`]);
  }
  const rows = facts.map(([name, value]) =>
    element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value)),
  );
  return element("table", {}, element("tbody", {}, ...rows));
}

function formatEstimate(middle, { low, high }) {
  const range = text("range", { low: formatShort(low), high: formatShort(high) });
  return `${formatShort(middle)} (${range})`;
}

function formatShort(value) {
  if (value === null) {
    return text("outOfRange");
  }
  if (typeof value === "number" && value !== 0 && Math.abs(value) < 1e-3) {
    return value.toExponential(1).replaceAll("-", "\u2212");
  }
  return formatNumber(typeof value === "number" ? Number(value.toPrecision(3)) : value);
}

function describeEnd({ criterion, now, limit, reached }) {
  const name = text(ENDS[criterion] ?? "value");
  const state = reached ? `, ${text("limitReached")}` : "";
  const label = `${name}: ${now === null ? "–" : formatShort(now)} / ${formatShort(limit)}${state}`;
  // Answers count up to their limit; everything else falls to it.
  const share = criterion === "answers" ? now / limit : now === null ? 0 : limit / now;
  const bar = element("progress", { max: 1, value: Math.min(share, 1), "aria-label": name });
  return element("div", {}, label, bar);
}

function drawTrend(values) {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("class", "trend");
  picture.setAttribute("viewBox", "0 0 100 30");
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("aria-hidden", "true");
  const first = values[0][0];
  const width = Math.max(values.at(-1)[0] - first, 1);
  const top = Math.max(...values.map(([, value]) => value), 1e-12);
  const points = values.map(
    ([number, value]) => `${(100 * (number - first)) / width},${29 - (27 * value) / top}`,
  );
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", points.join(" "));
  line.setAttribute("fill", "none");
  line.setAttribute("stroke", "currentColor");
  line.setAttribute("stroke-width", "2");
  line.setAttribute("vector-effect", "non-scaling-stroke");
  picture.append(line);
  return picture;
}

async function main() {
  const { experiments, participant } = await requestPatiently("experiments");
  const link = { href: participant, target: "_blank", rel: "noopener" };
  find("header").append(
    element("h1", {}, text("experimenter")),
    element("a", link, text("participantPage")),
    element("span", { class: "small" }, text("notMedical")),
  );
  const panels = experiments.map((name) => new Panel(name));
  find("main").append(...panels.map((panel) => panel.section));
  panels.forEach((panel) => panel.watch());
}

main();
