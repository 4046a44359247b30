-- How old the time of a sale may be that a server says; of an older one the money is dated by its receipt (domain/money-time.ts).
alter table clients add column late_hours int not null default 72 check (late_hours between 1 and 17568);
