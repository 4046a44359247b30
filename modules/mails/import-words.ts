// The words of mails about files of which not all was imported.
import type { MailFacts, Template } from "./mails.ts";
import type { Writer } from "./words.ts";

type ImportWriters = Readonly<Record<Extract<Template, `import_${string}`>, Writer>>;
type Facts = Required<MailFacts>;

const spanishCounts = ({ total, accepted, duplicate, rejected }: Facts) =>
  `Filas: ${total}; aceptadas: ${accepted}; ya conocidas: ${duplicate}; rechazadas: ${rejected}.`;
const englishCounts = ({ total, accepted, duplicate, rejected }: Facts) =>
  `Rows: ${total}; accepted: ${accepted}; known before: ${duplicate}; rejected: ${rejected}.`;

export const spanishImports: ImportWriters = {
  import_failed: (facts) => ({
    subject: `Importación de ${facts.file}: fallida`,
    sentences: [`No se pudo importar ${facts.file}: ${facts.reason}.`, spanishCounts(facts)],
  }),
  import_with_errors: (facts) => ({
    subject: `Importación de ${facts.file}: con errores`,
    sentences: [
      `Se importó ${facts.file}, menos las filas que se rechazaron.`,
      spanishCounts(facts),
      `Cada una, con su línea y el motivo: GET /api/imports/${facts.import_id}/errors, durante 30 días.`,
    ],
  }),
};

export const englishImports: ImportWriters = {
  import_failed: (facts) => ({
    subject: `Import ${facts.file}: failed`,
    sentences: [`${facts.file} could not be imported: ${facts.reason}.`, englishCounts(facts)],
  }),
  import_with_errors: (facts) => ({
    subject: `Import ${facts.file}: with errors`,
    sentences: [
      `${facts.file} was imported, without the rows that were rejected.`,
      englishCounts(facts),
      `Each of them, with its line and the reason: GET /api/imports/${facts.import_id}/errors, for 30 days.`,
    ],
  }),
};
