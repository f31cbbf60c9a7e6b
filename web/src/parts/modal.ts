/** The open dialogs and menus, the topmost last. */
const open: HTMLElement[] = [];

/** Makes everything but the topmost inert for keys, pointers and screen readers. */
function apply(): void {
  const page = document.getElementById("app");
  if (page) page.inert = open.length > 0;
  open.forEach((veil, i) => (veil.inert = i < open.length - 1));
}

/** Registers an element as topmost until the returned function is called. */
export function cover(veil: HTMLElement): () => void {
  open.push(veil);
  apply();
  return () => {
    open.splice(open.indexOf(veil), 1);
    apply();
  };
}
