module internals

go 1.24
