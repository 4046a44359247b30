-- A user is who its identity provider says, by (iss, sub): bound at the first login, by the verified
-- e-mail address. From then on the address may change at the provider, and no other subject that
-- shows the same address is let in. An identity belongs to one user, a removed one included.
alter table users
  add column issuer text check (length(issuer) between 1 and 1024),
  add column subject text check (length(subject) between 1 and 255),
  add column bound_at timestamptz(3),
  add check ((issuer is null) = (subject is null) and (issuer is null) = (bound_at is null));
create unique index users_identity on users (issuer, subject) where issuer is not null;
-- Which language mails to a user have.
alter table users add column locale text not null default 'es' check (locale in ('es', 'en'));
