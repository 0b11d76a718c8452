package tinker

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"
)

// A model keeps the newest snapshots without a name: older ones go, also after a restart, and the files with them.
func TestOldSnapshotsMakeRoom(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	for i := range maxSnapshots + 2 {
		c.must(c.call("save_weights_for_sampler", object{
			"model_id": id, "seq_id": i + 1, "sampling_session_seq_id": i, "type": "save_weights_for_sampler"}))
	}
	name := func(i int) string { return fmt.Sprintf("%s:sample:%d", c.session, i) }
	old := c.server.samplers[name(0)]
	if _, err := old.asking(c.server); err != nil {
		t.Fatal(err)
	}
	c.server.forget(time.Now())
	if len(c.server.samplers) != maxSnapshots+2 {
		t.Fatalf("%d snapshots, and all of them are new", len(c.server.samplers))
	}
	c.server.forget(time.Now().Add(2 * snapshotIdle))
	if c.server.samplers[name(0)] == nil || c.server.samplers[name(1)] != nil || len(c.server.samplers) != maxSnapshots+1 {
		t.Errorf("%d snapshots are left; want all but the second, which nobody asks", len(c.server.samplers))
	}
	next := c.again(nil)
	next.server.forget(time.Now().Add(2 * snapshotIdle))
	if _, err := os.Stat(old.adapter.dir); len(next.server.samplers) != maxSnapshots || err == nil {
		t.Errorf("after a restart, %d snapshots, and the first has files: %v", len(next.server.samplers), err)
	}
	if status, reply := next.do(http.MethodPost, "asample", object{
		"sampling_session_id": name(1), "seq_id": 0, "prompt": encodedText(first)}); status != http.StatusNotFound {
		t.Errorf("a snapshot that is gone: %d %v", status, reply)
	}
	next.sampled(object{"sampling_session_id": name(2), "seq_id": 0})
}
