"use strict";
// Keeps the page up to date from /state. The rows are clones of those in the page's templates, so their shape is in one place.
(() => {
  const pause = 3000; // milliseconds between an answer and the next question
  const byId = (id) => document.getElementById(id);
  const prototype = (id, selector) => byId(id).content.querySelector(selector);
  const podPrototype = prototype("pod-template", ".pod");
  const volumePrototype = prototype("volume-template", "tbody tr");
  const eventPrototype = prototype("event-template", "li");

  // Nothing that is right already is touched: no flicker, no lost selection, no announcement without news.
  const setText = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  const setAttribute = (element, name, value) => { if (element.getAttribute(name) !== value) element.setAttribute(name, value); };
  const setClass = (element, name, on) => { if (element.classList.contains(name) !== on) element.classList.toggle(name, on); };
  const setHidden = (element, hidden) => { if (element.hidden !== hidden) element.hidden = hidden; };
  const part = (element, name) => element.querySelector(`[data-is="${name}"]`);
  const setPart = (element, name, text) => {
    const found = part(element, name);
    setText(found, text);
    setHidden(found, text === "");
  };

  // setChildren makes the children of parent as many as items, and fills each.
  const setChildren = (parent, items, make, fill) => {
    while (parent.children.length > items.length) parent.lastElementChild.remove();
    while (parent.children.length < items.length) parent.append(make());
    items.forEach((item, i) => fill(parent.children[i], item));
  };

  // The two that the Go side has too, see page.go.
  const span = (seconds) => {
    seconds = Math.max(0, seconds);
    if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
    return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
  };
  const activity = (volume, now) => {
    const said = [];
    const until = (time) => (Date.parse(time) - now) / 1000;
    if (volume.operation) {
      const doing = { "set up": "setting up", "tear down": "tearing down", "verify": "verifying" }[volume.operation.name];
      said.push(`${doing ?? volume.operation.name} for ${span(-until(volume.operation.since))}`);
      if (volume.operation.abandoned) said.push("past its deadline");
    }
    if (volume.failures) said.push(volume.failures === 1 ? "failed once" : `failed ${volume.failures} times`);
    if (volume.nextTry) said.push(until(volume.nextTry) > 0 ? `next try in ${span(until(volume.nextTry))}` : "next try now");
    return said.join(", ");
  };

  const isFailing = (volume) => volume.state === "failed" || volume.failures > 0 || Boolean(volume.operation?.abandoned);

  const fillVolume = (now) => (row, volume) => {
    setClass(row, "failing", isFailing(volume));
    setPart(row, "name", volume.name);
    setPart(row, "plugin", volume.plugin);
    setPart(row, "state", volume.state);
    setAttribute(part(row, "state"), "data-state", volume.state);
    setPart(row, "path", volume.path);
    setHidden(part(row, "read-only"), !volume.readOnly);
    setPart(row, "activity", activity(volume, now));
    setPart(row, "problem", volume.error);
    setPart(row, "warnings", (volume.warnings ?? []).join("\n"));
  };

  const fillPod = (section, pod, now) => {
    const title = pod.name ? `${pod.namespace}/${pod.name}` : pod.uid;
    const notes = pod.error ? [pod.error] : [];
    for (const container of pod.containers) {
      for (const missing of container.missing ?? []) {
        if (missing.error) notes.push(`container ${container.name} has no ${missing.destination}: ${missing.error}`);
      }
    }
    setClass(section, "attention", notes.length > 0 || pod.volumes.some(isFailing));
    setAttribute(section, "data-uid", pod.uid);
    setPart(section, "title", title);
    setHidden(part(section, "leaving"), !pod.leaving);
    setPart(section, "notes", notes.join("\n"));
    setAttribute(section.querySelector("table"), "aria-label", `Volumes of ${title}`);
    setChildren(section.querySelector("tbody"), pod.volumes, () => volumePrototype.cloneNode(true), fillVolume(now));
  };

  const byName = (a, b) => compare(a.namespace, b.namespace) || compare(a.name, b.name) || compare(a.uid, b.uid);
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

  const sections = new Map([...byId("pods").children].map((section) => [section.dataset.uid, section]));
  const filled = new Map(); // by UID, the JSON of what a section shows
  const showPods = (pods, now) => {
    const gone = new Set(sections.keys());
    let before = null;
    for (const pod of pods.sort(byName)) {
      gone.delete(pod.uid);
      let section = sections.get(pod.uid);
      if (!section) sections.set(pod.uid, (section = podPrototype.cloneNode(true)));
      const json = JSON.stringify(pod);
      const moves = pod.volumes.some((volume) => volume.operation || volume.nextTry); // with the clock
      if (moves || filled.get(pod.uid) !== json) {
        fillPod(section, pod, now);
        filled.set(pod.uid, json);
      }
      const place = before ? before.nextElementSibling : byId("pods").firstElementChild;
      if (place !== section) byId("pods").insertBefore(section, place);
      before = section;
    }
    for (const uid of gone) {
      sections.get(uid).remove();
      sections.delete(uid);
      filled.delete(uid);
    }
    setHidden(byId("no-pods"), pods.length > 0);
  };

  const clock = (time) => new Date(time).toLocaleTimeString("en-GB");
  const fillEvent = (item, event) => {
    const pod = event.name ? `${event.namespace}/${event.name}` : event.uid;
    let how = `${event.outcome} after ${span(event.durationSeconds)}`;
    if (event.nextTry) how += `, next try at ${clock(event.nextTry)}`;
    setAttribute(item, "data-outcome", event.outcome);
    setAttribute(part(item, "when"), "datetime", event.time);
    setText(part(item, "when"), clock(event.time));
    setText(part(item, "what"), event.volume ? `${event.operation} ${event.volume} of ${pod}` : `${event.operation} ${pod}`);
    setText(part(item, "how"), how);
    setPart(item, "problem", [event.error, ...(event.warnings ?? [])].filter(Boolean).join("\n"));
  };

  const showOverview = (overview) => {
    const { totals, notices, events } = overview;
    setText(byId("headline"), overview.headline);
    setAttribute(byId("headline"), "data-tone", overview.tone);
    for (const number of document.querySelectorAll("[data-total]")) setText(number, String(totals[number.dataset.total]));
    let from = 0;
    for (const state of ["mounted", "pending", "failed"]) {
      const width = totals.volumes ? (100 * totals[state]) / totals.volumes : 0;
      const rect = byId("bar").querySelector(`.${state}`);
      setAttribute(rect, "x", `${from}%`);
      setAttribute(rect, "width", `${width}%`);
      from += width;
    }
    setHidden(byId("notices"), notices.length === 0);
    setChildren(byId("notices"), notices, () => document.createElement("li"), setText);
    setHidden(byId("no-events"), events.length > 0);
    setChildren(byId("events"), events, () => eventPrototype.cloneNode(true), fillEvent);
  };

  const find = byId("find");
  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const section of sections.values()) {
      const text = words.length ? section.textContent.toLowerCase() : "";
      const matches = words.every((word) => text.includes(word));
      setHidden(section, !matches);
      if (matches) found++;
    }
    setHidden(byId("none-found"), found > 0 || sections.size === 0);
  };
  find.hidden = false;
  find.addEventListener("input", filter);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && event.target !== find) {
      event.preventDefault();
      find.focus();
    } else if (event.key === "Escape" && event.target === find) {
      find.value = "";
      filter();
      find.blur();
    }
  });

  const refresh = async () => {
    let wait = pause;
    let current = false;
    try {
      const begun = performance.now();
      const answer = await fetch("state", { cache: "no-store", signal: AbortSignal.timeout(30000) });
      if (!answer.ok) throw new Error(`HTTP status ${answer.status}`);
      const state = await answer.json();
      showOverview(state.overview);
      showPods(state.pods, Date.parse(state.time));
      filter();
      setAttribute(byId("time"), "datetime", state.time);
      setText(byId("time"), clock(state.time));
      current = true;
      wait = Math.max(pause, 10 * (performance.now() - begun)); // a big state is asked for less often
    } catch (error) {
      console.error(error);
    }
    setText(byId("as-of"), current ? "As of" : "No answer: this is as of");
    setClass(byId("updated"), "stale", !current);
    setTimeout(next, wait);
  };
  // Nobody looks at a hidden page, so it rests until it is seen again.
  const next = () => {
    if (document.hidden) document.addEventListener("visibilitychange", next, { once: true });
    else refresh();
  };
  next();
})();
