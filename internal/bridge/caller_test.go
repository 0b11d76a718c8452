package bridge

import "testing"

// Functions of the process that started the run are asked there. Another run imports those that a module has.
func TestCallersNames(t *testing.T) {
	const only = "right was a function of the Python process that started the run, and no module has it: " +
		"start the run from there, or name a function of a module"
	for _, c := range []struct {
		caller, name string
		rest         string
		asked        bool
		err          string
	}{
		{"", "my.module.right", "my.module.right", false, ""},
		{"", "caller:my.module.right", "my.module.right", false, ""},
		{"", "caller:/here/my.py:right", "/here/my.py:right", false, ""},
		{"", "caller:right", "right", false, only},
		{"127.0.0.1:9", "my.module.right", "my.module.right", false, ""},
		{"127.0.0.1:9", "caller:my.module.right", "my.module.right", true, ""},
		{"127.0.0.1:9", "caller:right", "right", true, ""},
	} {
		t.Setenv(callerVariable, c.caller)
		rest, mux, err := at(c.name)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if rest != c.rest || (mux != nil) != c.asked || said != c.err {
			t.Errorf("%s with %q: %q, asked %v, %q", c.name, c.caller, rest, mux != nil, said)
		}
	}
}
