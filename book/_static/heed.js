// A page opened from the disk may not fetch another page, so search results show no excerpts there.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// Paper is white, also for who reads by night.
addEventListener("beforeprint", () => {
  const page = document.documentElement.dataset;
  page.shown = page.theme;
  page.theme = "light";
});
addEventListener("afterprint", () => {
  document.documentElement.dataset.theme = document.documentElement.dataset.shown;
});

// Progress: which chapters were opened (and how many exercises each has), and which exercises the reader has ticked.
// It is kept in this browser, under one key, and goes nowhere else. Where nothing may be kept, nothing is shown.
addEventListener("DOMContentLoaded", () => {
  const KEY = "heed-progress";
  const read = () => ({ opened: {}, passed: {}, ...JSON.parse(localStorage.getItem(KEY)) });
  const change = (part, name, value) => {
    const kept = read();
    if (value) kept[part][name] = value;
    else delete kept[part][name];
    localStorage.setItem(KEY, JSON.stringify(kept));
    show();
  };
  const chapter = (address) => address.match(/(?:^|\/)chapters\/(\d\d_\w+)(?:\.html.*)?$/)?.[1];
  const here = chapter(DOCUMENTATION_OPTIONS.pagename);
  const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const inTheList = [...document.querySelectorAll(".bd-docs-nav a.internal, article #the-chapters td a")];
  const names = new Map(inTheList.map((link) => {
    const href = link.getAttribute("href");
    return [link, href === "#" ? here : chapter(new URL(href, location.href).pathname)];
  }).filter(([, name]) => name));

  function show() {
    const { opened, passed } = read();
    const ticked = (name) => Object.keys(passed).filter((each) => Number(each.split(".")[0]) === Number(name.slice(0, 2))
      && opened[name]?.includes(each));
    for (const [link, name] of names) {
      delete link.dataset.heedDone;
      if (!opened[name]) continue;
      const [done, all] = [ticked(name).length, opened[name].length];
      link.dataset.heedDone = done ? `✓ ${done}/${all}` : "✓";
      link.dataset.heedSays = done ? `opened, ${done} of ${plural(all, "exercise")} passed` : "opened";
    }
    for (const box of document.querySelectorAll(".heed-passed input")) box.checked = box.value in passed;
    const said = document.querySelector(".heed-progress");
    if (!said) return;
    const chapters = new Set([...names].filter(([link]) => link.closest("article")).map(([, name]) => name));
    const seen = [...chapters].filter((name) => opened[name]);
    const done = seen.reduce((sum, name) => sum + ticked(name).length, 0);
    said.firstChild.textContent = seen.length
      ? `You have opened ${seen.length} of ${plural(chapters.size, "chapter")} and passed ${plural(done, "exercise")}. `
        + "Only this browser knows. "
      : "";
    said.querySelector("button").hidden = !seen.length;
  }

  try {
    if (here) {
      const asked = [...document.querySelectorAll("article section[id^='exercise-'] > :is(h2, h3)")];
      const numbers = asked.map((heading) => heading.textContent.match(/\d+\.\d+/)[0]);
      asked.forEach((heading, i) => {
        const label = document.createElement("label");
        label.className = "heed-passed";
        label.innerHTML = `<input type="checkbox" value="${numbers[i]}" aria-label="Exercise ${numbers[i]} passed"> passed`;
        label.firstChild.addEventListener("change", (event) => change("passed", numbers[i], Number(event.target.checked)));
        heading.after(label);
      });
      change("opened", here, numbers);
    }
    const list = document.querySelector("article #the-chapters > h2");
    if (list) {
      list.insertAdjacentHTML("afterend", '<p class="heed-progress" role="status">&#8203;<button type="button">Forget it all</button></p>');
      list.nextSibling.querySelector("button").addEventListener("click", () => {
        localStorage.removeItem(KEY);
        show();
        list.nextSibling.firstChild.textContent = "Forgotten.";
      });
    }
    show();
  } catch (refused) {
    document.querySelectorAll(".heed-passed, .heed-progress").forEach((each) => each.remove());
  }
});
