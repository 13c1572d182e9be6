// The page of a participant: which experiment, and which kind of trials it has.

import { Client, findName, requestPatiently } from "./client.js";
import { element, showScreen } from "./dom.js";
import { makeDuelTask } from "./duel.js";
import { makeEyeTask } from "./eye.js";
import { makePlainTask } from "./plain.js";
import { Session } from "./session.js";
import { text } from "./strings.js";

const TASKS = { eye: makeEyeTask, duel: makeDuelTask, plain: makePlainTask };

async function chooseExperiment() {
  const { experiments } = await requestPatiently("experiments");
  const given = new URLSearchParams(location.search).get("experiment");
  if (experiments.includes(given)) {
    return given;
  }
  return experiments.length === 1 ? experiments[0] : askFor(experiments);
}

function askFor(experiments) {
  return new Promise((resolve) => {
    const buttons = experiments.map((name) =>
      element("button", { class: "choice", onclick: () => resolve(name) }, name),
    );
    showScreen(
      element(
        "section",
        { class: "card" },
        element("h1", {}, text(experiments.length ? "choose" : "noExperiments")),
        element("div", { class: "choices" }, ...buttons),
      ),
    );
  });
}

async function main() {
  const experiment = await chooseExperiment();
  const client = new Client(experiment, await findName(experiment));
  const description = await client.describe();
  document.title = description.name;
  const task = await TASKS[description.page.kind](description, client);
  await new Session(client, description, task).run();
}

main();
