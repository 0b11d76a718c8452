package vision

// Gemma 3 sees one rectangle of a fixed size. Its processor can also add parts of long images (pan
// and scan), which this version does not.
func init() { kinds["Gemma3ImageProcessor"] = openGemma3 }

func openGemma3(s *settings) (*Processor, error) {
	if s.DoPanAndScan != nil && *s.DoPanAndScan {
		return nil, s.failed("do_pan_and_scan is true, which is not supported: set it to false")
	}
	height, err := s.side("size.height", s.Size.Height, 224)
	if err != nil {
		return nil, err
	}
	width, err := s.side("size.width", s.Size.Width, 224)
	if err != nil {
		return nil, err
	}
	t, patch, err := s.readTower(16)
	if err != nil {
		return nil, err
	}
	tokens, err := s.side("mm_tokens_per_image", t.ImageTokens, 256)
	if err != nil {
		return nil, err
	}
	if err := s.agree("image_seq_length", tokens); err != nil {
		return nil, err
	}
	const begin, token, end = "<start_of_image>", "<image_soft_token>", "<end_of_image>"
	return &Processor{
		Placeholder: begin, Special: []string{begin, token, end}, filter: filters[2], patch: patch,
		before: "\n\n" + begin, token: token, after: end + "\n\n",
		fit:    func(int, int) (int, int, error) { return width, height, nil },
		tokens: func(int, int) int { return tokens },
	}, nil
}
