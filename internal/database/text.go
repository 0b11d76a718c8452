package database

import (
	"errors"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	driver "modernc.org/sqlite"
)

// oneLine returns the text of an error in one line. It adds a reason where MySQL's driver gives
// none.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(connecting(err).Error()), " ")
	if errors.Is(err, mysql.ErrInvalidConn) {
		text += ": it was closed, or the server was silent for too long"
	}
	return text
}

// connecting returns the last reason why a connection to PostgreSQL failed. pgx tries each address
// of a host, with TLS and then without, and reports all of them.
func connecting(err error) error {
	var failed *pgconn.ConnectError
	if !errors.As(err, &failed) {
		return err
	}
	last := failed.Unwrap()
	if tries, ok := last.(interface{ Unwrap() []error }); ok {
		all := tries.Unwrap()
		last = all[len(all)-1]
	}
	var said *pgconn.PgError
	if errors.As(last, &said) {
		return said
	}
	var network *net.OpError
	if errors.As(last, &network) {
		return network
	}
	return last
}

// damaged reports whether an error says that a file is not an intact SQLite database.
func damaged(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && (e.Code()&0xff == 11 || e.Code()&0xff == 26) // SQLITE_CORRUPT, SQLITE_NOTADB
}
