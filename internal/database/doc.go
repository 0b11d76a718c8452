// Package database opens the databases that stores and readers use: SQLite in a file, PostgreSQL, MySQL and MariaDB, by the URLs that SQLAlchemy knows.
//
// What is written here is one SQL with ? for its parameters; the few words that the servers have each of their own are in dialect.
package database
