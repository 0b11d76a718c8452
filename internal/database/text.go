package database

import (
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"
	driver "modernc.org/sqlite"
)

// oneLine returns the text of an error in one line. It adds a reason where MySQL's driver gives
// none.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if errors.Is(err, mysql.ErrInvalidConn) {
		text += ": it was closed, or the server was silent for too long"
	}
	return text
}

// damaged reports whether an error says that a file is not an intact SQLite database.
func damaged(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && (e.Code()&0xff == 11 || e.Code()&0xff == 26) // SQLITE_CORRUPT, SQLITE_NOTADB
}
