package cli

import "testing"

func TestPlansFitTheTerminal(t *testing.T) {
	const memory = "                    1.8 MiB  sampler's weights"
	if got, want := wrap(memory+"\n", 40), memory[:38]+"\n"+"                            weights\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	const text = "plan: mode both, of some more words\n  train        120 steps of 64 experiences, 1 optimizer step\n" +
		"  writes       a/very/long/path/that/has/no/space: logs\n  short        x\n"
	for width, want := range map[int]string{
		0: text, 200: text,
		30: "plan: mode both, of some more\n  words\n" +
			"  train        120 steps of 64\n                 experiences,\n                 1 optimizer\n                 step\n" +
			"  writes       a/very/long/path/that/has/no/space:\n                 logs\n  short        x\n",
	} {
		if got := wrap(text, width); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}
