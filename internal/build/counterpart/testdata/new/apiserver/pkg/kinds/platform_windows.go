package kinds

func Platform() string { return "windows" }
