package database

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lostErrors are what drivers say of a connection that has ended, or on which something other came than was asked for.
var lostErrors = []error{
	io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, driver.ErrBadConn, sql.ErrConnDone, sql.ErrTxDone, pgx.ErrTxClosed, pgx.ErrTxCommitRollback,
	mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrPktSync, mysql.ErrPktSyncMul, mysql.ErrBusyBuffer,
	errCommit,
}

// errSchema may pass as well: it is not the connection's, but who has the lock gives it back.
var errSchema = errors.New("another process is changing the tables, and has not come to an end")

// lost reports whether an error that is not the server's is of the connection: the next one may have none.
func lost(err error) bool {
	var network net.Error
	var connecting *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connecting) || pgconn.SafeToRetry(err) || errors.Is(err, errSchema) || slices.ContainsFunc(lostErrors, func(e error) bool { return errors.Is(err, e) })
}
