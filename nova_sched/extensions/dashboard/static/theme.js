// Light or dark: as the browser asks, until the button says otherwise.
'use strict';
(() => {
  const root = document.documentElement;
  const wanted = matchMedia('(prefers-color-scheme: dark)');
  const kept = () => {
    try { return localStorage.getItem('theme'); } catch { return null; }
  };
  const now = () => kept() || (wanted.matches ? 'dark' : 'light');
  const show = () => {
    root.dataset.theme = now();
    const button = document.getElementById('theme');
    if (button) button.textContent = now() === 'dark' ? 'Light' : 'Dark';
    document.dispatchEvent(new Event('theme'));
  };
  show();
  wanted.addEventListener('change', show);
  document.addEventListener('DOMContentLoaded', () => {
    show();
    document.getElementById('theme').addEventListener('click', () => {
      try { localStorage.setItem('theme', now() === 'dark' ? 'light' : 'dark'); } catch { /* it stays */ }
      show();
    });
  });
})();
