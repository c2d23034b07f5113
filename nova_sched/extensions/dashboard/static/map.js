// The map of all hosts: one canvas, of which a change draws single cells again.
'use strict';
(() => {
  const place = document.getElementById('map'), canvas = document.getElementById('cells');
  const tip = document.getElementById('at'), side = document.getElementById('host');
  const choose = Object.fromEntries(['resource', 'state', 'aggregate', 'trait', 'find', 'live']
    .map((name) => [name, document.getElementById(name)]));
  const marked = new Set(place.dataset.open.split(',').filter(Boolean));
  const AGAIN_MS = 2000;  // behind one address, each of several processes may ask for a whole new board
  const AS_UP = ['up', 'unknown'];  // of hosts that are read from Nova only Nova knows the state
  let board, layout, cellOf, at = -1, events = null, colours;

  const number = (value) => value.toLocaleString('en').replaceAll(',', ' ');

  async function load() {
    const answer = await fetch(place.dataset.board, { headers: { Accept: 'application/json' } }).catch(() => null);
    if (!answer || !answer.ok || answer.redirected) {
      tell('The hosts cannot be read. Load the page again.');
      return;
    }
    board = await answer.json();
    fill(choose.resource, board.resources);
    fill(choose.state, board.states, 'any');
    fill(choose.aggregate, board.aggregates, 'any');
    fill(choose.trait, [...board.traits].sort(), 'any');
    const names = document.getElementById('names');
    names.replaceChildren(...board.hosts.slice(0, 2000).map((name) => new Option(name)));
    arrange();
    place.dataset.drawn = Math.round(performance.now());
    listen();
  }

  function fill(select, words, first) {
    const kept = select.value;
    select.replaceChildren(...(first ? [new Option(first, '')] : []), ...words.map((word) => new Option(word)));
    if (words.includes(kept)) select.value = kept;
  }

  // Which hosts are shown, and where.

  function shown(row) {
    const [state] = board.cells[row];
    const has = (words, sets, chosen) => !chosen.value || sets.includes(words.indexOf(chosen.value));
    return (!choose.state.value || board.states[state] === choose.state.value)
      && has(board.aggregates, board.aggregate_sets[board.aggregates_of[row]], choose.aggregate)
      && has(board.traits, board.trait_sets[board.traits_of[row]], choose.trait);
  }

  function arrange() {
    const rows = board.hosts.map((_, row) => row).filter(shown);
    const width = place.clientWidth;
    layout = laidOut(board, rows, width, Math.max(420, innerHeight - 290));
    cellOf = new Map(layout.cells.map((cell, index) => [cell.row, index]));
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = Math.max(1, layout.height) * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${layout.height}px`;
    canvas.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
    at = Math.min(at, layout.cells.length - 1);
    draw();
  }

  // Drawing.

  function read() {
    const style = getComputedStyle(document.documentElement);
    const names = ['s0', 's1', 's2', 's3', 's4', 's5', 'over', 'off', 'down', 'ink', 'faint', 'focus', 'paper'];
    colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`)]));
  }

  function draw() {
    read();
    const pen = canvas.getContext('2d');
    pen.clearRect(0, 0, canvas.width, canvas.height);
    for (const label of layout.labels) {
      pen.fillStyle = label.isZone ? colours.ink : colours.faint;
      pen.font = label.isZone ? '600 14px system-ui, sans-serif' : '11px system-ui, sans-serif';
      pen.fillText(label.isZone ? label.text : cut(pen, label.text, label.most), label.x, label.y);
    }
    layout.cells.forEach((_, index) => cell(pen, index));
    legend();
    summary();
  }

  function cut(pen, text, most) {
    if (pen.measureText(text).width <= most) return text;
    let left = text;
    while (left && pen.measureText(`…${left}`).width > most) left = left.slice(1);
    return `…${left}`;
  }

  function colour(row) {
    const [state, , shares] = board.cells[row];
    const word = board.states[state];
    if (word === 'disabled') return colours.off;
    if (!AS_UP.includes(word)) return colours.down;
    const share = shares[Math.max(0, choose.resource.selectedIndex)];
    if (share === undefined || share < 0) return colours.off;
    return share > 100 ? colours.over : colours[`s${Math.min(5, Math.floor(share / 16.7))}`];
  }

  function cell(pen, index) {
    const { row, x, y } = layout.cells[index], size = layout.size;
    const inner = size - (size > 8 ? 3 : 1);
    pen.fillStyle = colours.paper;
    pen.fillRect(x, y, size, size);
    pen.fillStyle = colour(row);
    pen.fillRect(x + 1, y + 1, inner, inner);
    // States differ in more than their colour: a stroke for disabled, a cross for down.
    const state = board.states[board.cells[row][0]];
    if (!AS_UP.includes(state) && size > 6) {
      pen.strokeStyle = colours.paper;
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.moveTo(x + 1, y + 1 + inner);
      pen.lineTo(x + 1 + inner, y + 1);
      if (state !== 'disabled') {
        pen.moveTo(x + 1, y + 1);
        pen.lineTo(x + 1 + inner, y + 1 + inner);
      }
      pen.stroke();
    }
    if (index === at || marked.has(board.hosts[row])) {
      pen.strokeStyle = index === at ? colours.focus : colours.ink;
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, inner, inner);
    }
  }

  function legend() {
    const parts = [0, 1, 2, 3, 4, 5].map((step) => [`s${step}`, step === 0 ? 'unused' : step === 5 ? 'full' : '']);
    const all = [...parts, ['over', 'above capacity'], ['off', 'disabled, or without it'], ['down', 'down']];
    document.getElementById('legend').replaceChildren(...all.map(([name, text]) => {
      const one = document.createElement('span');
      one.innerHTML = '<svg viewBox="0 0 10 10" aria-hidden="true"><rect width="10" height="10" rx="2"/></svg>';
      one.querySelector('rect').setAttribute('fill', colours[name]);
      one.append(text);
      return one;
    }));
  }

  function summary() {
    const counts = new Map();
    let sum = 0, having = 0;
    const resource = Math.max(0, choose.resource.selectedIndex);
    for (const { row } of layout.cells) {
      const [state, , shares] = board.cells[row];
      counts.set(board.states[state], (counts.get(board.states[state]) || 0) + 1);
      if (shares[resource] >= 0) {
        sum += shares[resource];
        having += 1;
      }
    }
    const states = [...counts].map(([word, count]) => `${number(count)} ${word}`).join(', ');
    const use = having ? `; ${board.resources[resource]} ${Math.round(sum / having)} % used on average` : '';
    tell(layout.cells.length ? `${number(layout.cells.length)} hosts: ${states}${use}` : 'No host matches.');
  }

  function tell(text) {
    const there = document.getElementById('summary');
    if (there.textContent !== text) there.textContent = text;
  }

  // Changes.

  function listen() {
    if (events) events.close();
    events = null;
    if (!choose.live.checked) return;
    events = new EventSource(`${place.dataset.changes}?since=${board.version}`);
    events.addEventListener('cells', (event) => {
      board.version = event.lastEventId;
      const pen = canvas.getContext('2d');
      const changed = JSON.parse(event.data);
      for (const [row, ...values] of changed) {
        board.cells[row] = values;
        if (cellOf.has(row)) cell(pen, cellOf.get(row));
      }
      place.dataset.updates = Number(place.dataset.updates || 0) + changed.length;
      if (choose.state.value) arrange(); else summary();
    });
    events.addEventListener('reload', () => {
      events.close();
      setTimeout(load, AGAIN_MS);
    });
    events.addEventListener('error', () => {
      if (events && events.readyState === EventSource.CLOSED) tell('Updates have stopped. Load the page again.');
    });
  }

  // Choosing a host.

  function point(index, open) {
    const before = at, pen = canvas.getContext('2d');
    at = index;
    if (before >= 0 && before < layout.cells.length) cell(pen, before);
    if (at < 0) return;
    cell(pen, at);
    const { row } = layout.cells[at], [state, claims, shares] = board.cells[row];
    const share = shares[Math.max(0, choose.resource.selectedIndex)];
    tip.textContent = [board.hosts[row], board.zones[board.zone[row]], board.racks[board.rack[row]],
      board.states[state], `${claims} claims`, share >= 0 ? `${choose.resource.value} ${share} %` : '']
      .filter(Boolean).join(', ');
    if (open) show(board.hosts[row]);
  }

  function show(name) {
    const there = `${place.dataset.host}?name=${encodeURIComponent(name)}`;
    htmx.ajax('GET', there, { target: side, swap: 'innerHTML' });
  }

  function under(event) {
    const box = canvas.getBoundingClientRect(), size = layout.size;
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return layout.cells.findIndex((one) => x >= one.x && x < one.x + size && y >= one.y && y < one.y + size);
  }

  // The nearest cell above (-1) or below (1) the present one.
  function beyond(way) {
    const here = layout.cells[at];
    let best = at, least = Infinity;
    layout.cells.forEach((one, index) => {
      const down = (one.y - here.y) * way;
      const far = down * 4 + Math.abs(one.x - here.x);
      if (down > 0 && far < least) [best, least] = [index, far];
    });
    return best;
  }

  canvas.addEventListener('mousemove', (event) => {
    const index = under(event);
    if (index >= 0 && index !== at) point(index, false);
  });
  canvas.addEventListener('click', (event) => {
    const index = under(event);
    if (index >= 0) point(index, true);
  });
  canvas.addEventListener('keydown', (event) => {
    const last = layout.cells.length - 1, from = Math.max(at, 0);
    const steps = {
      ArrowRight: () => Math.min(last, at + 1), ArrowLeft: () => Math.max(0, from - 1), Home: () => 0, End: () => last,
      ArrowDown: () => (at < 0 ? 0 : beyond(1)), ArrowUp: () => (at < 0 ? 0 : beyond(-1)), Enter: () => from,
    };
    if (!(event.key in steps) || last < 0) return;
    event.preventDefault();
    point(steps[event.key](), event.key === 'Enter');
    canvas.scrollIntoView({ block: 'nearest' });
  });
  choose.find.addEventListener('change', () => {
    const row = board.hosts.indexOf(choose.find.value.trim());
    if (row < 0) tip.textContent = `There is no host ${choose.find.value}.`;
    else if (cellOf.has(row)) point(cellOf.get(row), true);
    else show(board.hosts[row]);
  });
  document.getElementById('filters').addEventListener('submit', (event) => event.preventDefault());
  for (const name of ['resource', 'state', 'aggregate', 'trait']) choose[name].addEventListener('change', arrange);
  choose.live.addEventListener('change', listen);
  document.addEventListener('theme', () => layout && draw());
  addEventListener('resize', () => board && arrange());
  addEventListener('DOMContentLoaded', () => {
    load().then(() => {
      if (marked.size === 1) {
        const [name] = marked;
        choose.find.value = name;
        choose.find.dispatchEvent(new Event('change'));
      }
    });
  });
})();
