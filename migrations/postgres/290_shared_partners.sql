-- What is given to a partner by somebody who does not see all clients stays with the clients that it was given for: an upload token, an invitation, and
-- the user that comes of it (users.client_ids). Null: every client of the partner, also later ones.
alter table tokens add column client_ids int[] check (client_ids is null or kind = 'upload');
alter table invitations add column client_ids int[] check (client_ids is null or kind = 'partner');
