// The route that replaces the upload token of a partner.
import { rotateUploadToken } from "../../../../modules/catalog/partners/rotate-upload-token.ts";
import * as contracts from "../../contract/partners/upload-credentials.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(contracts.rotateUploadToken, ({ write, params, user }) =>
    write(
      (work) => rotateUploadToken(work, { partner_id: params.id, actor: user.name }),
      ({ token: upload_token, ...rotated }) => ({ body: { upload_token, ...rotated } }),
    ),
  ),
];
