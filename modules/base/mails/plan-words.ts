// Texts of the mails about plans of a month.
import type { PlannedFacts, Template } from "./mails.ts";
import type { Writer } from "./words.ts";

type PlanTemplate = Extract<Template, `plan_${string}`>;
type PlanWriters = Readonly<Record<PlanTemplate, Writer>>;

/** One sentence a line. A line for all segments names no segment. */
const lined = (
  lines: readonly PlannedFacts[],
  words: { readonly all: string; readonly conversions: (target: number) => string },
): readonly string[] =>
  lines.map(({ segment, budget, target_conversions }) => {
    const target = target_conversions === 0 ? "" : `, ${words.conversions(target_conversions)}`;
    return `${segment ?? words.all}: ${budget}${target}.`;
  });

const spanishWords = {
  all: "Todos los segmentos",
  conversions: (target: number) => (target === 1 ? "1 conversión" : `${target} conversiones`),
};
const englishWords = {
  all: "All segments",
  conversions: (target: number) => (target === 1 ? "1 conversion" : `${target} conversions`),
};
const given = (label: string, reason: string): readonly string[] => (reason === "" ? [] : [`${label}: ${reason}`]);

export const spanishPlans: PlanWriters = {
  plan_approved: ({ name, month, lines }, written) => ({
    subject: `Plan de ${written.month(month)} aprobado`,
    sentences: [
      `El plan de ${name} para ${written.month(month)} está aprobado. Comisión prevista para usted:`,
      ...lined(lines, spanishWords),
    ],
  }),
  plan_reopened: ({ name, month, lines, reason }, written) => ({
    subject: `Plan de ${written.month(month)} reabierto`,
    sentences: [
      `El plan de ${name} para ${written.month(month)} se revisa de nuevo; hasta ahora preveía para usted:`,
      ...lined(lines, spanishWords),
      ...given("Motivo", reason),
    ],
  }),
  plan_approved_managers: ({ actor, name, month, lines, added, changed, removed }, written) => ({
    subject: `Plan de ${written.month(month)} aprobado`,
    sentences: [
      `${actor} aprobó el plan de ${name} para ${written.month(month)}.`,
      ...lined(lines, spanishWords),
      `Líneas nuevas: ${added}; cambiadas: ${changed}; retiradas: ${removed}, frente al plan aprobado antes.`,
    ],
  }),
  plan_reopened_managers: ({ actor, name, month, lines, reason }, written) => ({
    subject: `Plan de ${written.month(month)} reabierto`,
    sentences: [
      `${actor} reabrió el plan de ${name} para ${written.month(month)}.`,
      ...lined(lines, spanishWords),
      ...given("Motivo", reason),
    ],
  }),
};

export const englishPlans: PlanWriters = {
  plan_approved: ({ name, month, lines }, written) => ({
    subject: `Plan ${written.month(month)} approved`,
    sentences: [
      `The plan of ${name} for ${written.month(month)} is approved. Commission planned for you:`,
      ...lined(lines, englishWords),
    ],
  }),
  plan_reopened: ({ name, month, lines, reason }, written) => ({
    subject: `Plan ${written.month(month)} reopened`,
    sentences: [
      `The plan of ${name} for ${written.month(month)} is being looked at again; until now it planned for you:`,
      ...lined(lines, englishWords),
      ...given("Reason", reason),
    ],
  }),
  plan_approved_managers: ({ actor, name, month, lines, added, changed, removed }, written) => ({
    subject: `Plan ${written.month(month)} approved`,
    sentences: [
      `${actor} approved the plan of ${name} for ${written.month(month)}.`,
      ...lined(lines, englishWords),
      `Lines added: ${added}; changed: ${changed}; removed: ${removed}, against the plan approved before.`,
    ],
  }),
  plan_reopened_managers: ({ actor, name, month, lines, reason }, written) => ({
    subject: `Plan ${written.month(month)} reopened`,
    sentences: [
      `${actor} reopened the plan of ${name} for ${written.month(month)}.`,
      ...lined(lines, englishWords),
      ...given("Reason", reason),
    ],
  }),
};
