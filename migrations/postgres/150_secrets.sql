-- The secrets that an installation has used, by fingerprint alone. One of them is the pepper, for good: identifiers are hashed under it.
create table installation_secrets (
  fingerprint text primary key check (fingerprint ~ '^[0-9a-f]{16}$'),
  is_pepper boolean not null default false,
  first_used_at timestamptz(3) not null default clock_timestamp()
);
create unique index installation_secrets_one_pepper on installation_secrets (is_pepper) where is_pepper;

-- What each process was started with: a rotation ends when all of them have the new secret.
create table secret_holders (
  instance text primary key,
  newest text not null,
  accepted text[] not null,
  pepper text not null,
  started_at timestamptz(3) not null default clock_timestamp()
);

grant select, insert on installation_secrets to tributary_app;
grant select, insert, update, delete on secret_holders to tributary_app;
