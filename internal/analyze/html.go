package analyze

func writeHTML(name string, r *Report) error { return writeFile(name, nil) }
