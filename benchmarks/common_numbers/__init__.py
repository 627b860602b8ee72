"""Would two rows of a table share more of a seed's luck if they drew the same random numbers for the same tokens?"""
