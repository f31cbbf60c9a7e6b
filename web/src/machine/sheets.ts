let adopted = false;

/**
 * Lets the terminal and the editor use their own styles. They write style elements, which the
 * page's content security policy forbids, since it cannot distinguish them from injected ones. This
 * function redirects the content of new style elements to a constructed style sheet, which only the
 * page's own scripts can create.
 */
export function adoptStyles(): void {
  if (adopted) return;
  adopted = true;
  const create = document.createElement.bind(document) as (name: string, options?: ElementCreationOptions) => HTMLElement;
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    return name === "style" ? adopt(create("template")) : create(name, options);
  }) as typeof document.createElement;
}

/** Makes an invisible element act as a style element. */
function adopt(element: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  let text = "";
  Object.defineProperty(element, "textContent", {
    get: () => text,
    set: (now: string) => {
      text = now;
      sheet.replaceSync(now);
      if (!document.adoptedStyleSheets.includes(sheet)) document.adoptedStyleSheets.push(sheet);
    },
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
    Element.prototype.remove.call(element);
  };
  Object.defineProperty(element, "sheet", { value: sheet });
  return element;
}
