package dataset

import "io"

// counted reports to opts.Progress how many of a file's total bytes were read.
func counted(r io.Reader, path string, total int64, opts Options) io.Reader {
	if opts.Progress == nil {
		return r
	}
	return &counter{r: r, path: path, total: total, tell: opts.Progress}
}

type counter struct {
	r           io.Reader
	path        string
	done, total int64
	tell        func(file string, done, total int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.done += int64(n)
	c.tell(c.path, c.done, c.total)
	return n, err
}
