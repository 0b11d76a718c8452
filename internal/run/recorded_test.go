package run_test

import (
	"path/filepath"
	"testing"
)

// A run trains on the experiences that the operators of another run have left, in every form. It
// ends with the same bytes whatever the form.
func TestARunTrainsOnTheArchiveOfAnother(t *testing.T) {
	p := newProject(t, tiny, rl)
	var want result
	for _, form := range []string{".jsonl", ".jsonl.zst", ".parquet", ".db"} {
		kept, rows := filepath.Join(p.dir, "kept"+form), ""
		if form == ".db" {
			kept, rows = "sqlite:///"+filepath.ToSlash(kept), ", subset_name: \"SELECT experience FROM trinity_archive WHERE archive LIKE "+
				"'%/output-%' ORDER BY step, id\""
		}
		explored := p.copyOf(t)
		if _, err := explored.run(t, "data_processor.experience_pipeline.output_save_path="+kept); err != nil {
			t.Fatal(err)
		}
		again := p.copyOf(t)
		train := []string{"mode=train", "buffer.train_batch_size=12", "buffer.total_epochs=2", "buffer.total_steps=null",
			"buffer.trainer_input.experience_buffer={storage_type: file, path: '" + kept + "'" + rows + "}"}
		if _, err := again.run(t, train...); err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		got := results(t, again.dir)
		if form == ".jsonl" {
			want = got
		}
		got.sameAs(t, want)

		if form == ".db" {
			break
		}
		train = append(train, "buffer.trainer_input.experience_buffer.path="+filepath.Join(explored.job(), "buffer", "explorer_output.jsonl"))
		_, err := p.copyOf(t).run(t, train...)
		oneLine(t, err, "explorer_output.jsonl/step-000000001.jsonl:1", "has no advantages", "output_save_path")
		if _, err := p.copyOf(t).run(t, append(train, withCritic...)...); err != nil {
			t.Errorf("a critic makes its own advantages: %v", err)
		}
	}
}
