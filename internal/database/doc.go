// Package database opens databases for stores and readers: SQLite in a file, PostgreSQL, MySQL and
// MariaDB, by the URLs of SQLAlchemy.
//
// Queries are in one SQL with ? for parameters. A dialect holds the few words that differ between
// servers.
package database
