// Masks what must never leave the browser in a recording. The recorder masks by itself; this pass
// covers what it misses: hidden fields, choices and e-mail addresses.
import { withoutEmails } from "../data/emails.ts";

/** The mask has the same length for every value. */
export const MASK = "******";

const FIELDS = /^(input|textarea|select)$/i;
/** The value of these inputs is their label. */
const BUTTONS = /^(submit|button|reset|image)$/i;
const VALUE_IS_NO_INPUT = /^(li|progress|meter|button|option|data|param)$/i;

const maskAttributes = (attributes: any): void => {
  if (attributes.value !== undefined && !BUTTONS.test(attributes.type)) attributes.value = MASK;
  delete attributes.checked;
};

const maskNode = ({ tagName, attributes, childNodes = [] }: any): void => {
  if (FIELDS.test(tagName)) {
    maskAttributes(attributes);
    if (tagName === "textarea") for (const child of childNodes) child.textContent = MASK;
  }
  for (const child of childNodes) maskNode(child);
};

const cutEmails = (held: any): void => {
  for (const key of Object.keys(held)) {
    const value = held[key];
    if (typeof value === "string") held[key] = withoutEmails(value);
    else if (typeof value === "object" && value !== null) cutEmails(value);
  }
};

/** Changes the event in place. `nameOf` returns the element name of a recorded node id. */
export const maskEvent = (event: any, nameOf: (id: number) => string | undefined): void => {
  const { data } = event;
  if (data.node) maskNode(data.node);
  for (const { node } of data.adds || []) maskNode(node);
  for (const { id, attributes } of data.attributes || [])
    if (!VALUE_IS_NO_INPUT.test(nameOf(id) || "")) maskAttributes(attributes);
  // Source 5 is a field whose value changed.
  if (data.source === 5) Object.assign(data, { text: MASK, isChecked: false });
  cutEmails(data);
};
