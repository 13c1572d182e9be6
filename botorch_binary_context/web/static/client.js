// The server's JSON interface. An answer is kept in the browser until it is written.

import { showBanner, sleep } from "./dom.js";
import { text } from "./strings.js";

const API = new URL("../api/", import.meta.url);
const RETRY = 1000; // milliseconds
const PREFIX = "binary-context";

export class Refused extends Error {
  constructor(status, answer) {
    super(answer?.error?.message ?? `status ${status}`);
    this.status = status;
    this.code = answer?.error?.code ?? "unknown";
    this.answer = answer;
  }
}

export async function request(path, body = undefined) {
  const options = { cache: "no-store", credentials: "omit" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  const response = await fetch(new URL(path, API), options);
  const answer = await response.json();
  if (!response.ok) {
    throw new Refused(response.status, answer);
  }
  return answer;
}

// Again and again until the server can be reached.
export async function requestPatiently(path, body = undefined) {
  for (;;) {
    try {
      const answer = await request(path, body);
      showBanner("");
      return answer;
    } catch (error) {
      if (error instanceof Refused && error.status < 500) {
        if (error.code !== "wrong-token") {
          showBanner("");
          throw error;
        }
        showBanner(text("newAddress"));
      } else {
        showBanner(text("offline"));
      }
      await sleep(RETRY);
    }
  }
}

export class Client {
  constructor(experiment, name) {
    this.name = name;
    this.path = `experiments/${encodeURIComponent(experiment)}`;
    this.outbox = `${PREFIX} answer ${experiment} ${name}`;
  }

  describe() {
    return requestPatiently(this.path);
  }

  status() {
    return requestPatiently(`${this.path}/status?client=${encodeURIComponent(this.name)}`);
  }

  ask() {
    return requestPatiently(`${this.path}/ask`, { client: this.name });
  }

  // limits: the least and the largest value of contexts, by their names.
  limit(limits) {
    return requestPatiently(`${this.path}/limit`, { client: this.name, limits });
  }

  // Whether trials are asked again after the end; a lost connection does not matter.
  async goesOn() {
    try {
      return (await request(`${this.path}/status`)).finished === null;
    } catch {
      return false;
    }
  }

  undo() {
    return requestPatiently(`${this.path}/undo`, { client: this.name });
  }

  async tell(answer) {
    localStorage.setItem(this.outbox, JSON.stringify(answer));
    await this.sendKept();
  }

  // Send an answer that was given but perhaps not written, for example because the
  // browser was closed. One that was written already is refused and not counted twice.
  async sendKept() {
    const kept = localStorage.getItem(this.outbox);
    if (kept === null) {
      return;
    }
    try {
      const answer = { ...JSON.parse(kept), client: this.name };
      await requestPatiently(`${this.path}/tell`, answer);
    } catch (error) {
      if (!(error instanceof Refused)) {
        throw error;
      }
      if (error.code !== "not-pending") {
        showBanner(text("refused", { message: error.message }));
      }
    }
    localStorage.removeItem(this.outbox);
  }
}

// A name of this browser that no other of its windows uses now.
export async function findName(experiment) {
  const given = new URLSearchParams(location.search).get("client");
  if (given) {
    return given;
  }
  const key = `${PREFIX} name`;
  if (localStorage.getItem(key) === null) {
    const [luck] = crypto.getRandomValues(new Uint32Array(1));
    localStorage.setItem(key, `page-${luck.toString(36)}`);
  }
  const own = localStorage.getItem(key);
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? own : `${own}-${number}`;
    if (await lock(`${PREFIX} ${experiment} ${name}`)) {
      return name;
    }
  }
}

// Hold a lock until the page is closed; where there are no locks, all is free.
function lock(name) {
  if (!navigator.locks) {
    return Promise.resolve(true);
  }
  return new Promise((resolve) => {
    navigator.locks.request(name, { ifAvailable: true }, (held) => {
      resolve(held !== null);
      return held === null ? undefined : new Promise(() => {});
    });
  });
}
