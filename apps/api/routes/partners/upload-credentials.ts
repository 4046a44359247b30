// The route that makes a partner another upload token.
import { randomUUID } from "node:crypto";
import { readToken } from "../../../../modules/access/tokens/token-reads.ts";
import { createTokenWithin } from "../../../../modules/access/tokens/tokens.ts";
import { addressesOfPartners } from "../../../../modules/access/users/recipients.ts";
import { asUsers } from "../../../../modules/access/users/users.ts";
import { queueMails } from "../../../../modules/base/mails/mails.ts";
import { openPartner, partnerArchived } from "../../../../modules/catalog/partners/open-partner.ts";
import { rotateUploadToken } from "../../contract/partners/upload-credentials.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(rotateUploadToken, ({ write, params, user }) =>
    write(async (work) => {
      const { tx, scope, audit } = work;
      const { id } = params;
      const { state, shown } = await openPartner(work, id, ["name"]);
      if (state.status === "archived") throw partnerArchived();
      const recipients = await addressesOfPartners(tx, [id]);
      const label = "upload token rotated in the platform API";
      const { token_id, token } = await createTokenWithin(tx, { kind: "upload", partner_id: id, label });
      const { prefix, created_at: at } = (await readToken(tx, token_id, scope, ["prefix", "created_at"]))!;
      const happening = `upload-token-rotated:${randomUUID()}`;
      const facts = { actor: user.name, name: shown.name as string, at: at as number };
      await asUsers(tx, () =>
        queueMails(
          tx,
          recipients.map(({ email, locale }) => {
            return { happening, recipient: email, template: "upload_token_rotated", locale, facts };
          }),
        ),
      );
      const [client, ...others] = state.known_to;
      const client_id = others.length === 0 ? client! : null;
      await audit({ action: "upload_token.rotated", client_id, entity: `partner:${id}`, after: { prefix } });
      return { body: { upload_token: token, prefix, rotated_at: at } };
    }),
  ),
];
