package rundir

import (
	"bytes"
	"fmt"

	"github.com/trinity-go/trinity/internal/blobs"
)

// ReadImage returns an image that the run or the stage in a directory keeps: a PNG file.
func ReadImage(dir, digest string) ([]byte, error) {
	file, err := blobs.In(dir).Get(digest)
	if err == nil && !bytes.HasPrefix(file, []byte("\x89PNG\r\n\x1a\n")) {
		err = fmt.Errorf("the image %s is no PNG file", digest)
	}
	return file, err
}
