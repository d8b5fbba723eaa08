package yaml

func Unmarshal() {}
