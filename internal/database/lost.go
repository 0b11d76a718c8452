package database

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// lostErrors lists the drivers' errors for a connection that has ended or is out of step.
var lostErrors = []error{
	io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, driver.ErrBadConn, sql.ErrConnDone, sql.ErrTxDone,
	mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrPktSync, mysql.ErrPktSyncMul, mysql.ErrBusyBuffer,
	errCommit,
}

// errSchema may pass, too: the other process releases the lock.
var errSchema = errors.New("another process is still changing the tables")

// lost reports whether an error comes from the connection, so that a new connection may help.
func lost(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, errSchema) ||
		slices.ContainsFunc(lostErrors, func(e error) bool { return errors.Is(err, e) })
}
