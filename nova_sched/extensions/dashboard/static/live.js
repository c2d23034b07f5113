// A form with the event "tick" asks again every few seconds, while its box is ticked and the page is looked at.
'use strict';
document.querySelectorAll('[data-live]').forEach((box) => {
  const form = document.querySelector(box.dataset.live);
  box.addEventListener('change', (event) => event.stopPropagation());
  setInterval(() => {
    const typing = form.contains(document.activeElement) && document.activeElement.type === 'search';
    if (box.checked && !document.hidden && !typing) htmx.trigger(form, 'tick');
  }, 3000);
});
