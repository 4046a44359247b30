// Describes an element of the page in a few words, and never with text that a visitor typed.

const MAX_LABEL = 64;

export interface ElementFacts {
  readonly tag: string;
  readonly element_id?: string;
  readonly label?: string;
  readonly href?: string;
}

const LABELLED = "a,button,summary,[role=button],[role=link],[role=tab],input[type=submit],input[type=button]";

/** Only links and buttons give their text, because other text may be about the visitor. */
const labelOf = (element: Element): string | undefined => {
  if (!element.matches(LABELLED)) return undefined;
  const value = element.matches("input") ? (element as HTMLInputElement).value : element.textContent;
  const text = (element.getAttribute("aria-label") ?? value ?? "").replace(/\s+/g, " ").trim();
  return text.slice(0, MAX_LABEL) || undefined;
};

export const describe = (element: Element): ElementFacts => {
  const id = element.getAttribute("id");
  const label = labelOf(element);
  return {
    tag: element.tagName.toLowerCase(),
    ...(id && { element_id: id.slice(0, MAX_LABEL) }),
    ...(label !== undefined && { label }),
  };
};

/** The element that a click is meant for: the link or button around the target, else the target. */
export const meant = (target: EventTarget | null): Element | null => {
  if (!(target instanceof Element)) return null;
  return target.closest(LABELLED) ?? target;
};

export const looksClickable = (element: Element): boolean =>
  element.matches(`${LABELLED},[onclick],label,select`) || getComputedStyle(element).cursor === "pointer";
