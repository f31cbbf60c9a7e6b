let adopted = false;

/**
 * The terminal and the editor write their colours and sizes into style elements, which the
 * policy of the page forbids, as it cannot tell them from what somebody has
 * slipped in. So what is written into a style element made from here on goes
 * into a style sheet of the page's own, which only scripts of ours can make.
 */
export function adoptStyles(): void {
  if (adopted) return;
  adopted = true;
  const create = document.createElement.bind(document) as (name: string, options?: ElementCreationOptions) => HTMLElement;
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    return name === "style" ? adopt(create("template")) : create(name, options);
  }) as typeof document.createElement;
}

/** Makes an element that shows nothing pass for a style element. */
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
