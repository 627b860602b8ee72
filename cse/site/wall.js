"use strict";
(() => {
  const form = document.querySelector("form.filters");
  const cards = [...document.querySelectorAll(".card")];
  const sections = [...document.querySelectorAll("section.paper")];
  const selects = [...form.querySelectorAll("select")];
  const shown = form.querySelector("output");

  function show() {
    const wanted = selects.filter((select) => select.value);
    for (const card of cards) {
      card.hidden = !wanted.every((select) => card.dataset[select.name].split(" ").includes(select.value));
    }
    for (const section of sections) {
      section.hidden = !section.querySelector(".card:not([hidden])");
    }
    const left = cards.filter((card) => !card.hidden).length;
    shown.textContent = left === cards.length ? `${left} tables` : `${left} of ${cards.length} tables`;
    form.classList.toggle("active", wanted.length > 0);
    return wanted;
  }

  function fromAddress() {
    const query = new URLSearchParams(location.hash.slice(1));
    for (const select of selects) {
      const value = query.get(select.name) || "";
      select.value = [...select.options].some((option) => option.value === value) ? value : "";
    }
    show();
  }

  form.addEventListener("change", () => {
    const query = new URLSearchParams(show().map((select) => [select.name, select.value]));
    history.replaceState(null, "", `#${query}`);
  });
  form.addEventListener("reset", () => {
    setTimeout(() => {
      show();
      history.replaceState(null, "", "#");
    });
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => {
    if (location.hash.includes("=") || location.hash === "") fromAddress();
  });
  form.hidden = false;
  fromAddress();
})();
