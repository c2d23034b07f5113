// Servers placed a second, from the sums of two answers after each other.
'use strict';
(() => {
  const canvas = document.getElementById('rates');
  const points = [];
  let last = null;

  function read() {
    const sums = document.getElementById('processes').dataset;
    const seen = { placed: Number(sums.placed), now: Number(sums.now) };
    if (last && seen.now > last.now) {
      points.push(Math.max(0, (seen.placed - last.placed) / (seen.now - last.now)));
      if (points.length > 200) points.shift();
      const rate = points[points.length - 1].toFixed(1);
      document.getElementById('rate').textContent = `${rate} a second now.`;
    }
    last = seen;
    draw();
  }

  function draw() {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext('2d');
    const style = getComputedStyle(document.documentElement);
    pen.scale(ratio, ratio);
    pen.strokeStyle = style.getPropertyValue('--line');
    pen.strokeRect(0.5, 0.5, width - 1, height - 1);
    const most = Math.max(1, ...points);
    pen.beginPath();
    points.forEach((rate, number) => {
      const x = (width * number) / Math.max(60, points.length - 1);
      pen.lineTo(x, height - 6 - (height - 24) * (rate / most));
    });
    pen.lineWidth = 2;
    pen.strokeStyle = style.getPropertyValue('--accent');
    pen.stroke();
    pen.fillStyle = style.getPropertyValue('--faint');
    pen.font = '12px system-ui, sans-serif';
    pen.fillText(most.toFixed(1), 6, 15);
  }

  document.body.addEventListener('htmx:afterSwap', read);
  document.addEventListener('theme', draw);
  addEventListener('resize', draw);
  read();
})();
