package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	driver "modernc.org/sqlite"
)

// dialect is what is a server's own.
type dialect struct {
	open      func(a Address, readOnly bool) (pool, lazy *sql.DB, err error)
	transient func(error) bool // may an error pass?
	watch     func(ctx context.Context, db *DB) error
	poll      time.Duration // between looks for what other processes have changed, at most; 0 where they tell
	words     *strings.Replacer
	numbered  bool   // parameters are $1, $2
	locks     string // ends a SELECT that is to lock its rows until the transaction ends
	notify    string // statement that tells other processes once the transaction is committed
	insert    string // begins the INSERT of a row that may be there
	unless    string // ends it
	lock      string // statement that keeps other processes from changing the schema
	unlock    string
}

const connectTimeout = 10 * time.Second

var sqlite = &dialect{
	open: openSQLite, words: strings.NewReplacer("{text}", "TEXT", "{blob}", "BLOB", "{table}", ""),
	insert: "INSERT INTO", unless: "ON CONFLICT DO NOTHING",
	transient: func(err error) bool {
		var e *driver.Error
		return errors.As(err, &e) && (e.Code()&0xff == 5 || e.Code()&0xff == 6) // SQLITE_BUSY, SQLITE_LOCKED
	},
}

var postgres = &dialect{
	open: openPostgres, words: strings.NewReplacer("{text}", "TEXT", "{blob}", "BYTEA", "{table}", ""), numbered: true,
	insert: "INSERT INTO", unless: "ON CONFLICT DO NOTHING", locks: " FOR UPDATE", notify: "NOTIFY " + channel,
	lock:      "SELECT pg_advisory_xact_lock(7381643)",
	transient: transientPostgres,
}

var mySQL = &dialect{
	open: openMySQL, words: strings.NewReplacer("{text}", "LONGTEXT", "{blob}", "LONGBLOB", "{table}", " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
	insert: "INSERT IGNORE INTO", locks: " FOR UPDATE", poll: 250 * time.Millisecond,
	lock: "SELECT GET_LOCK('trinity_schema', 60)", unlock: "SELECT RELEASE_LOCK('trinity_schema')",
	transient: func(err error) bool {
		var e *mysql.MySQLError
		return !errors.As(err, &e) || slices.Contains(passingMySQL, e.Number)
	},
}

func init() { sqlite.watch, postgres.watch = watchFile, listen } // which need the dialects

// passingMySQL are too many connections, shutdown, lock wait timeout, deadlock, and the connection was killed.
var passingMySQL = []uint16{1040, 1053, 1205, 1213, 1927}

// transientPostgres: lost connections, shutdown and start, too many connections, deadlocks.
func transientPostgres(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return true
	}
	return slices.Contains([]string{"08", "40", "57"}, e.Code[:2]) && e.Code != "57014" || e.Code == "53300"
}

func openSQLite(a Address, readOnly bool) (pool, lazy *sql.DB, err error) {
	if pool, err = connectSQLite(a, readOnly, "FULL"); err != nil {
		return nil, nil, err
	}
	lazy, err = connectSQLite(a, readOnly, "NORMAL")
	return pool, lazy, err
}

func connectSQLite(a Address, readOnly bool, synchronous string) (*sql.DB, error) {
	q := url.Values{"_pragma": {"busy_timeout(10000)"}}
	if readOnly {
		q.Set("mode", "ro")
	} else {
		q.Set("_txlock", "immediate") // one that reads first and writes then would fail at once where another writes
		q["_pragma"] = append(q["_pragma"], "page_size(16384)", "synchronous("+synchronous+")")
		q.Set("_journal_mode", "WAL") // after the page's size, which is then fixed
	}
	db, err := sql.Open("sqlite", "file:"+strings.ReplaceAll(url.PathEscape(a.file), "%2F", "/")+"?"+q.Encode())
	if err == nil && !readOnly {
		db.SetMaxOpenConns(1) // it has one writer at a time
	}
	return db, err
}

func openPostgres(a Address, _ bool) (pool, lazy *sql.DB, err error) {
	cfg, err := postgresConfig(a)
	if err != nil {
		return nil, nil, err
	}
	return stdlib.OpenDB(*cfg), stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SET synchronous_commit = off")
		return err
	})), nil
}

func postgresConfig(a Address) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(a.url.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %s", a, Hidden(err.Error()))
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	return cfg, nil
}

// mySQLOptions are what a URL may say behind its ?.
var mySQLOptions = []string{"charset", "tls", "unix_socket"}

func openMySQL(a Address, _ bool) (pool, lazy *sql.DB, err error) {
	cfg := mysql.NewConfig()
	cfg.User = a.url.User.Username()
	cfg.Passwd, _ = a.url.User.Password()
	cfg.DBName = strings.Trim(a.url.Path, "/")
	cfg.Net, cfg.Addr = "tcp", a.url.Host
	if a.url.Port() == "" {
		cfg.Addr = net.JoinHostPort(a.url.Hostname(), "3306")
	}
	q := a.url.Query()
	if socket := q.Get("unix_socket"); socket != "" {
		cfg.Net, cfg.Addr = "unix", socket
	}
	cfg.TLSConfig = q.Get("tls")
	cfg.ClientFoundRows = true // an UPDATE that changes nothing has found its row, as everywhere
	cfg.MaxAllowedPacket = 0   // as the server has it
	cfg.Timeout, cfg.Logger = connectTimeout, &mysql.NopLogger{}
	cfg.ParseTime = true
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s", a, Hidden(err.Error()))
	}
	return sql.OpenDB(c), sql.OpenDB(c), nil
}

// bind writes a query as the server reads it.
func (d *dialect) bind(query string) string {
	if !d.numbered {
		return query
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}
