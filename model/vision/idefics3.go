package vision

// Idefics3 and SmolVLM see one square, whatever the shape of an image. Their processors can also cut
// an image into many squares, which this version does not.
func init() {
	kinds["Idefics3ImageProcessor"] = openIdefics3
	kinds["SmolVLMImageProcessor"] = openIdefics3
}

func openIdefics3(s *settings) (*Processor, error) {
	side, err := s.side("max_image_size.longest_edge", s.MaxImageSize.Longest, 364)
	if err != nil {
		return nil, err
	}
	if s.DoImageSplitting == nil || *s.DoImageSplitting || s.Size.Longest == nil || *s.Size.Longest != side {
		return nil, s.failed("the processor would cut an image into many: set do_image_splitting to false and size to {\"longest_edge\": %d}, "+
			"so that an image is one square (64 tokens with SmolVLM, not 1,088)", side)
	}
	t, patch, err := s.readTower(32)
	if err != nil {
		return nil, err
	}
	scale := 2
	if t.ScaleFactor != nil {
		scale = *t.ScaleFactor
	}
	if scale < 1 || side < patch*scale {
		return nil, s.failed("images of %d pixels have no token: %s has patches of %d pixels and scale_factor %d", side, modelFile, patch, scale)
	}
	tokens := (side / patch / scale) * (side / patch / scale)
	if err := s.agree("image_seq_len", tokens); err != nil {
		return nil, err
	}
	const token, around, whole = "<image>", "<fake_token_around_image>", "<global-img>"
	return &Processor{
		Placeholder: token, Special: []string{token, around, whole}, filter: filters[1], patch: patch,
		before: around + whole, token: token, after: around,
		fit:    func(int, int) (int, int, error) { return side, side, nil },
		tokens: func(int, int) int { return tokens },
	}, nil
}
