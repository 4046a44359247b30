// Leads that a page reports, and leads that a submitted form makes. Two of them for one form within
// two seconds are one lead.
import { quietly } from "./guard.ts";
import type { Tracker } from "./tracker.ts";

const ONE_LEAD_MS = 2_000;

export interface LeadDefaults {
  readonly product?: unknown;
  readonly stage?: unknown;
  readonly lead_value?: unknown;
  readonly currency?: unknown;
}
interface SentForm {
  readonly id: string;
  readonly formId: string;
  readonly at: number;
  readonly props: Readonly<Record<string, unknown>>;
}

export interface Leads {
  readonly report: (lead: unknown) => void;
  readonly fromForm: (form: HTMLFormElement) => void;
}

/** Attributes of a form and the fields of a lead that they set. */
const ATTRIBUTES = { product: "product", stage: "stage", value: "lead_value", currency: "currency", source: "source" };

/** The form's id, name or action; a control called `id` hides the property of that name. */
export const formIdOf = (form: HTMLFormElement): string =>
  (form.getAttribute("id") ?? form.getAttribute("name") ?? form.getAttribute("action") ?? "form").slice(0, 128);

const controlsOf = (form: HTMLFormElement): readonly HTMLInputElement[] => Array.from(form.querySelectorAll("input"));

/** The text in the first field of this kind. */
const written = (form: HTMLFormElement, type: string, names: RegExp): string | undefined => {
  const fits = (one: HTMLInputElement): boolean =>
    one.type === type || (one.type === "text" && names.test(`${one.name} ${one.id} ${one.autocomplete}`));
  return controlsOf(form).find((one) => fits(one) && one.value.trim() !== "")?.value;
};

const attributesOf = (form: HTMLFormElement): Record<string, unknown> => {
  const found: Record<string, unknown> = {};
  for (const [attribute, field] of Object.entries(ATTRIBUTES)) {
    const value = form.getAttribute(`data-svc-${attribute}`);
    if (value !== null && value !== "") found[field] = value;
  }
  return found;
};

export const openLeads = (tracker: Tracker, defaults: LeadDefaults): Leads => {
  let auto: SentForm | undefined;
  let reported: SentForm | undefined;
  const isRecent = (sent: SentForm | undefined, formId: string): sent is SentForm =>
    sent !== undefined &&
    Date.now() - sent.at < ONE_LEAD_MS &&
    (sent.formId === formId || formId === "" || sent.formId === "");

  return {
    report: (lead) => {
      if (typeof lead !== "object" || lead === null) return;
      const formId = String((lead as any).form_id ?? "");
      let props: Record<string, unknown> = { ...lead };
      // The page's own values win over those that the form gave.
      if (isRecent(auto, formId) && tracker.sender.takeBack(auto.id)) props = { ...auto.props, ...props };
      const id = tracker.event("lead_submit", props);
      if (id !== null) reported = { id, formId, at: Date.now(), props };
    },
    fromForm: (form) => {
      const formId = formIdOf(form);
      if (form.hasAttribute("data-svc-skip") || isRecent(reported, formId) || isRecent(auto, formId)) return;
      const email = quietly(() => written(form, "email", /e-?mail|correo/i));
      const phone = quietly(() => written(form, "tel", /phone|\btel|telefono|celular|m[oó]vil/i));
      const { product, stage, lead_value, currency } = defaults;
      const props = {
        product,
        stage,
        lead_value,
        currency,
        ...attributesOf(form),
        form_id: formId,
        email,
        phone,
        auto: true,
      };
      const id = tracker.event("lead_submit", props, ONE_LEAD_MS);
      if (id !== null) auto = { id, formId, at: Date.now(), props };
    },
  };
};
