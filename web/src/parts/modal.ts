/** What is open over the page, the topmost last. */
const open: HTMLElement[] = [];

/** Leaves only the topmost usable: keys, pointers and screen readers reach nothing behind it. */
function apply(): void {
  const page = document.getElementById("app");
  if (page) page.inert = open.length > 0;
  open.forEach((veil, i) => (veil.inert = i < open.length - 1));
}

/** Puts something over the page, until the function that it returns is called. */
export function cover(veil: HTMLElement): () => void {
  open.push(veil);
  apply();
  return () => {
    open.splice(open.indexOf(veil), 1);
    apply();
  };
}
