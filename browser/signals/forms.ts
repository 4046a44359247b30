// Forms: begun, sent, abandoned, and how long each field took. Typed text is not read here.
import { doc, listen, win } from "../guard.ts";
import { formIdOf, type Leads } from "../leads.ts";
import type { Tracker } from "../tracker.ts";

const MOST_FIELDS = 30;

interface FormStart {
  readonly at: number;
  /** Milliseconds by field. */
  readonly fields: Map<string, number>;
  last: string;
}

/** `auto` makes a lead of each submitted form too. */
export const startForms = (tracker: Tracker, leads: Leads, auto: boolean): void => {
  const { signal } = tracker;
  const begun = new Map<HTMLFormElement, FormStart>();
  let focused: { readonly form: HTMLFormElement; readonly field: string; readonly at: number } | undefined;

  const blur = (): void => {
    const fields = focused && begun.get(focused.form)?.fields;
    if (focused && fields && (fields.size < MOST_FIELDS || fields.has(focused.field)))
      fields.set(focused.field, (fields.get(focused.field) ?? 0) + Date.now() - focused.at);
    focused = undefined;
  };
  const end = (form: HTMLFormElement): Readonly<Record<string, unknown>> => {
    if (focused?.form === form) blur();
    const state = begun.get(form);
    begun.delete(form);
    const form_id = formIdOf(form);
    if (state === undefined) return { form_id };
    const fields = Array.from(state.fields, ([field, ms]) => ({ field, ms }));
    if (fields.length > 0) signal("field_timings", { form_id, fields });
    return { form_id, fields: fields.length, last_field: state.last, ms: Date.now() - state.at };
  };

  listen(doc, "focusin", ({ target }) => {
    blur();
    const { form, name, id, type } = (target ?? {}) as HTMLInputElement;
    if (!(form instanceof HTMLFormElement)) return;
    const field = `${name || id || type}`.slice(0, 64);
    focused = { form, field, at: Date.now() };
    const known = begun.get(form);
    if (known !== undefined) known.last = field;
    else {
      begun.set(form, { at: Date.now(), fields: new Map(), last: field });
      signal("form_start", { form_id: formIdOf(form), first_field: field });
    }
  });
  listen(doc, "focusout", blur);
  listen(doc, "submit", ({ target }) => {
    if (!(target instanceof HTMLFormElement)) return;
    signal("form_submit", end(target));
    if (auto) leads.fromForm(target);
  });
  listen(win, "pagehide", () => {
    for (const form of Array.from(begun.keys())) signal("form_abandon", end(form));
  });
};
