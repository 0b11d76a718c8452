package buffer

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/database"
	"github.com/trinity-go/trinity/experience"
)

const sqlColumns = "buffer, number, rollout, explorer, delivery, needs, step, task, run, turn, version, reward, tokens, prompt, response, experience"

// A statement inserts at most so many rows, and bytes of experiences unless one has more.
const (
	sqlRows  = 64
	sqlBytes = 4 << 20
)

// sqlDelivery is a delivery as rows.
type sqlDelivery struct {
	exps     []*trinity.Experience
	blobs    [][]byte
	rollouts int
}

func encodeDelivery(d trinity.Delivery) (sqlDelivery, error) {
	out := sqlDelivery{exps: slices.Concat(d.Groups...)}
	out.rollouts = rollouts(out.exps)
	for _, e := range out.exps {
		blob, err := experience.Append(nil, e)
		if err != nil {
			return out, fmt.Errorf("experience %s: %w", e.ID, err)
		}
		out.blobs = append(out.blobs, blob)
	}
	return out, nil
}

// insert adds the rows of an explorer's delivery behind the numbers of what was put last.
func (d sqlDelivery) insert(ctx context.Context, t database.Tx, buffer, explorer string, delivery, needs, number, rollout int64) error {
	var rows [][]any
	bytes := 0
	for i, e := range d.exps {
		number++
		if i == 0 || begins(d.exps[i-1].ID, e.ID) {
			rollout++
		}
		rows = append(rows, []any{buffer, number, rollout, explorer, delivery, needs, e.ID.Step, readable(e.ID.Task), e.ID.Run, e.ID.Turn, e.Versions[1],
			readableReward(e.Reward), len(e.Tokens), readable(e.Prompt), readable(e.Response), d.blobs[i]})
		bytes += len(d.blobs[i])
		if last := i+1 == len(d.exps); last || len(rows) == sqlRows || bytes+len(d.blobs[i+1]) > sqlBytes {
			if err := t.InsertAll(ctx, "trinity_experiences", sqlColumns, rows); err != nil {
				return err
			}
			rows, bytes = nil, 0
		}
	}
	return nil
}

// readable is text as every server takes it: UTF-8 without NUL. What it is exactly is in the experience.
func readable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// readableReward is NULL for what is no reward, or not finite.
func readableReward(r trinity.Reward) sql.NullFloat64 {
	return sql.NullFloat64{Float64: r.Value, Valid: r.Valid && !math.IsNaN(r.Value) && !math.IsInf(r.Value, 0)}
}

func (b *sqlServer) entries(ctx context.Context, after int64, limit int) (entries []sharedEntry, err error) {
	var blobs [][]byte
	begin := func() { entries, blobs = entries[:0], blobs[:0] }
	err = b.db.Each(ctx, "SELECT number, rollout, needs, experience FROM trinity_experiences WHERE buffer = ? AND number > ? ORDER BY number LIMIT ?",
		[]any{b.name, after, limit}, begin, func(r *sql.Rows) error {
			var e sharedEntry
			var blob []byte
			err := r.Scan(&e.number, &e.rollout, &e.needs, &blob)
			entries, blobs = append(entries, e), append(blobs, blob)
			return err
		})
	for i := 0; err == nil && i < len(entries); i++ {
		e := &entries[i]
		if e.experience, err = experience.Decode(blobs[i]); err != nil {
			err = fmt.Errorf("%s, experience %d of buffer %s: %w", b.db, e.number, b.name, err)
		}
	}
	return entries, err
}
